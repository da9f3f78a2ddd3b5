"""Bounds that tell rounding from corruption, for canaries and twins. The judge, the recorder and the twins use them.

They are differences of a logit or log probability, or margins between the best two candidates. Batching alone moves a
logit of our CPU runtime by at most 1.7e-6, and one damaged KV slot moves it by 1e-3 to 5e-2. A difference between the
bounds decides nothing. The bounds live here because judges import nothing outside `assertions`.
"""

ROUNDING_BELOW = 1e-5
CORRUPT_ABOVE = 1e-4
