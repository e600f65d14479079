"""What can be chosen: strategies, decisions and the rules of legality."""
