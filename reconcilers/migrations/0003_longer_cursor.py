from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("reconcilers", "0002_parked_index"),
    ]

    operations = [
        migrations.AlterField(
            model_name="heartbeat",
            name="cursor",
            field=models.CharField(blank=True, default="", max_length=300),
        ),
    ]
