"""The only door to the API server; the only package that imports the Kubernetes client."""
