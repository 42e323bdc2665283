"""The console's widgets: they draw plain data and send intents up as messages."""
