"""What happens: plan, drive, record, judge, report, and the command line."""
