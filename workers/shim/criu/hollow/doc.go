// Package hollow makes images of criu's that hold the shape of what they describe and none of
// its content: for a restore whose tree never executes an instruction.
//
// Pagemap leaves out all pages but some ranges, Ghost makes a file without a name one of the
// same size without a block, Unlocked has locked memory not be there, and Archive writes the tree of a memory file system with empty
// files of the same sizes. A restore of them takes the same steps, and memory that doesn't
// grow with the session. Bound reads where a socket was bound. The package reads and writes the images alone; it runs nothing.
package hollow
