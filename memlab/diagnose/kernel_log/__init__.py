"""The kernel's words about want of memory, read from any log that people paste.

`forms` yields lines whatever the form, `sentences` is the table of the kernel's words, `reports`
groups them, `cause` gives one answer, `answer` prints it.
"""
