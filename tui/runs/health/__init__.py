"""What goes wrong while a run goes on: workers out of reach, stalls, slow cores, lost slices."""
