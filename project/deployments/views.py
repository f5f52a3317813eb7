"""The fleet on one page, for people to watch."""

from typing import TYPE_CHECKING

from django.views.generic import ListView

from project.deployments.models import Deployment

if TYPE_CHECKING:
    _FleetView = ListView[Deployment]
else:
    _FleetView = ListView


class FleetView(_FleetView):
    """Every deployment with its version and how far its rollout is; the page reloads itself."""

    model = Deployment
    template_name = "deployments/fleet.html"
