"""Response times inside uWSGI, from samples: what they show of each request, and the distribution that follows."""
