"""trflm: neural trans-dimensional random field language models."""

__version__ = "0.1.0"
