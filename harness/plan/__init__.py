"""From a scenario to a plan: names become things, capabilities are checked; the last place to refuse."""
