/*
 * Keeping the calling thread on one CPU.
 */
#ifndef MEMLAB_PIN_H
#define MEMLAB_PIN_H

/* Both return 0, or -1 and errno. */
int pin_to(int cpu);
int pin_here(void); /* on the one that it runs on */

#endif
