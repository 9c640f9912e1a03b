"""Which configuration is best, in the fewest launches: model, choice, study, confirmation."""
