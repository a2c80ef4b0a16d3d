"""Certificates: authority, leaf, rotation plan, trust bundle, hot reload. Does not import webhook.

Nothing in here sleeps, starts a thread or keeps a global: whoever calls passes the moment (or a clock) and the store,
and does the waiting.
"""
