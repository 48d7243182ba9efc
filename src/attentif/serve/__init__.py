"""HTTP server: any run behind an API that OpenAI's clients understand, and the studio's pages."""
