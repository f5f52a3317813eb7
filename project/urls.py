"""Addresses of the site: the fleet's page, its API and the admin."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("", include("project.deployments.urls")),
]
