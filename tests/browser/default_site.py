"""The default admin site, as ``django.contrib.admin`` fills it, for the browser."""

from django.contrib import admin
from django.http import HttpResponse
from django.urls import path

urlpatterns = [path("admin/", admin.site.urls), path("favicon.ico", lambda request: HttpResponse(status=204))]
