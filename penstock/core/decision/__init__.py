"""The decision: match demand to groups, place it, plan launches, give reasons."""
