"""What will be done: deployments, their checks, how they are explained, saved and read back."""
