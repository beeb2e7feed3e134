"""Running jobs: what to run and why, the run itself, and what it depended on.

Nothing is imported here: the job's own process imports the tracer from this
package, and should carry no more of codewalk than that.
"""
