"""The command line; starts fast, so heavy imports wait until a subcommand needs them."""
