"""What the tests of several areas share."""
