"""What streams are like: statistics taken from their tuples."""
