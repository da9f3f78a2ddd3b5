"""What happens in a live trial: processes, phases, fault switches, and one loop that keeps them in step."""
