"""Time, locks and order: settings, the book that holds the ledger, the corridor, logs, wiring."""
