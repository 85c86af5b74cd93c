// Package papers makes the page that lists every router, table and figure of the three papers beside what
// came of it here: by which command, on which page, theirs beside ours, and whether the claim held.
//
// Ours are read from the pages that lie beside, cell by cell, so that none is written by hand. What is not
// made is said to be not made.
package papers
