"""Addresses of the fleet's page and API, below whatever the project puts them."""

from django.urls import include, path

from project.deployments.api import router
from project.deployments.views import FleetView

urlpatterns = [
    path("", FleetView.as_view(), name="fleet"),
    path("api/", include(router.urls)),
]
