"""The app ``deployments``."""

from django.apps import AppConfig


class DeploymentsConfig(AppConfig):
    """Deployments that an autoscaler, a rollout controller, people and HTTP clients all write."""

    name = "project.deployments"
    label = "deployments"

    def ready(self) -> None:
        """Let a demo that started this process hear what its reconcilers do."""
        from project.deployments.demo import telemetry

        telemetry.connect_if_asked()
