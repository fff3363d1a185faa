"""What the commands share: arguments, the console, questions, the live view."""
