"""What the papers' experiments run on: values, streams, queries and networks, each made from a seed."""
