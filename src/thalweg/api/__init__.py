"""What the commands and the functions of Python do: plan, compare, measure, run, verify."""
