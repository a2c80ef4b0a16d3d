"""How the server processes start: gunicorn, TLS, workers, listeners."""
