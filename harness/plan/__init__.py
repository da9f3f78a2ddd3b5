"""Make a plan from a scenario: resolve names, check capabilities, and refuse what the target can't do."""
