"""Reading servers on a timer: one reader and one watch a server, a fleet of watches."""
