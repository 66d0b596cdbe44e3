"""Reviews the settings of a uWSGI: what in its configuration will cause trouble later, and the line that prevents it.

`analysis.settings` judges, `running` reads what a uWSGI that runs shows, `command` is `uwsgi-headroom review`.
"""
