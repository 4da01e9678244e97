"""Small numerical pieces, each on a page of its own."""
