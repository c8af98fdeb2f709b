"""The reproduction: every table and figure of the paper, from presets to pages. Imports the library, never the reverse."""
