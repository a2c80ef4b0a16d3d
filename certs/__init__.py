"""Certificates: authority, leaf, rotation plan, trust bundle, hot reload. Does not import webhook."""
