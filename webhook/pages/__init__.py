"""One Markdown page for each reason, by its code; ``numa-admission explain CODE`` prints it."""
