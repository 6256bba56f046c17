"""Where results go: one module for each kind of sink."""
