# Counters of eventfds, one of them a semaphore.
#: eventfd | counter; semaphore | kept
import os
plain, sem = os.eventfd(5), os.eventfd(3, os.EFD_SEMAPHORE)
ready()
answer([os.eventfd_read(plain) == 5 or "plain", os.eventfd_read(sem) == 1 or "semaphore", os.eventfd_read(sem) == 1 or "semaphore again"])
