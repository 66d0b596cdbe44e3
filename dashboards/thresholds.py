"""Where figures change their colour. Those of alerts are in `alerts/rules`; `check` has the same."""

HEADROOM_LOW = 1.25
"""UwsgiHeadroomLow."""
NEAR_CAPACITY = 0.9
"""The part of a limit in use from which a full server is one whose requests wait."""
UNEVEN = 1.5
"""UwsgiWorkersUneven."""
INTERPRETER_BUSY, INTERPRETER_FULL = 0.5, 0.85
"""Interpreter loads from which threads begin to wait for its lock, and mostly wait for it."""
BURNS_HOURS, BURNS_AN_HOUR = 6.0, 14.4
"""The pages of UwsgiErrorBudgetBurning, over six hours and over one."""
QUEUE_FULL = 0.05
QUEUE_WAIT, QUEUE_WAIT_SEVERE = 0.1, 0.5
"""Seconds that users notice, and that they notice badly."""
CPU_FULL = 0.9
FORECAST_DAYS = 14
"""UwsgiHeadroomForecast."""
