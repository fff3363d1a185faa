"""How well throttling is told, judged on drives that share no code with the rules.

``drives`` has the physics, ``scenes`` draws scenes of every class, ``recording`` writes what would
have been recorded, ``scoring`` holds what was found against the truth.
``python -m tests.judge_throttling`` prints the table.
"""
