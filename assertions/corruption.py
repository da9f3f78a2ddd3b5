"""Bounds that tell rounding from corruption, for canaries and twins. The judge, the recorder and the twins use them.

They are differences of a logit or log probability, or margins between the best two candidates. The float32 of our CPU
runtime is at most 9.6e-6 away from the float64 of the oracle (192 canaries of 32 tokens, median 3.9e-6), and one
damaged KV slot moves a logit by 1e-3 to 5e-2. A difference between the bounds decides nothing. The bounds live here
because judges import nothing outside `assertions`.
"""

ROUNDING_BELOW = 3e-5
CORRUPT_ABOVE = 1e-4
