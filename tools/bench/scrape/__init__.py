"""What a scrape and a sample cost the exporter, and what they take of uWSGI's master."""
