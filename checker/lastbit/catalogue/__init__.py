"""The check of the rules themselves: does each do what it claims, and need what it requires?"""
