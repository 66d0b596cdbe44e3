"""Writes a document as HTML or Markdown; draws its charts."""
