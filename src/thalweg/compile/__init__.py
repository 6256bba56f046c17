"""The one way from a deployment to what each site runs."""
