"""The quiet room: pure rules on frozen values. No clock, log, thread, environment or JSON dict in here."""
