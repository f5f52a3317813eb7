"""The writers that race: HTTP clients, an admin user, ``mutate`` callers, and controllers for the unguarded fleet.

``python -m project.deployments.demo.writers http=4 admin=1`` starts some of them in one process; it is told over its
standard input when to write to which fleet, and ends with it.
"""
