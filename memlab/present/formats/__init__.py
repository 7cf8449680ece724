"""A comparison or a judgement as other programs read it: cases in, text out."""
