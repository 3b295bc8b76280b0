"""What a person looks at: pages of HTML, and what a notebook shows.

In: plain documents, such as those of `--json`.
Out: HTML, from the templates in `templates/` and what is in `static/`. A page is one file that loads nothing.
May import: base. It knows nothing of stages, so that what every stage gives can show itself.
"""
