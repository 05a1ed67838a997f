"""Rules of placing and launching, by subject: each a sentence and the facts that show it."""
